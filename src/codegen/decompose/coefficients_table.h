// Coefficients of the polynomials that transcendental.cpp and sine.cpp compute: minimax fits of the relative
// error (Remez exchange).
#pragma once
#include <cstdint>

namespace lathe {

// (2^x - 1) / x on [-1/2, 1/2].
inline constexpr double kExp2Single[] = {0.693147182,   0.240226462,   0.0555031039,
                                         0.00961766299, 0.00134066434, 0.000155946895};
inline constexpr double kExp2Double[] = {
    0.693147180559945308,   0.240226506959100711,   0.0555041086648217337,   0.00961812910762856124,
    0.00133335581463817387, 0.00015403530393171838, 1.52527338648445994e-5,  1.32154870034048544e-6,
    1.01780475313853284e-7, 7.05481483776857868e-9, 4.45723928351612441e-10, 2.58552371466580024e-11};
inline constexpr double kExp2Medium[] = {0.693147180541,   0.240226506947,   0.0555041095923,
                                         0.00961812955884, 0.00133334341577, 0.00015403098203,
                                         1.5314209192e-05, 1.33441844285e-06};

// (log2(1+t) - t) / t on [sqrt(1/2) - 1, sqrt(2) - 1].
inline constexpr double kLog2Single[] = {0.44269504083,  -0.721347351501, 0.480898241056, -0.360696649413,
                                         0.288567408494, -0.239617403642, 0.204600617657, -0.191062751557,
                                         0.186174973217, -0.109949573678};
// (atanh(s) * 2 - 2*s) / s^3 as a polynomial in s^2, for the same t and s = t / (2+t): ln(1+t) is 2 atanh(s).
inline constexpr double kLnDouble[] = {0.666666666666673416, 0.399999999994163678, 0.285714287420163585,
                                       0.222221986106989978, 0.181835624095645843, 0.153140987188103961,
                                       0.147954763743322885};
inline constexpr double kLnMedium[] = {0.666666656486425202, 0.40000334535442455, 0.285373469024172938,
                                       0.235814735360375727};
// (3*atanh(s)/s - 3 - s^2) / s^4 as a polynomial in s^2, for the same s.
inline constexpr double kLnExtended[] = {0.6,
                                         0.4285714285714405,
                                         0.3333333333248386,
                                         0.272727275030814,
                                         0.23076892444611202,
                                         0.20002206995436506,
                                         0.1755935572322456,
                                         0.1758475524119861};

// sin(d) = d + d^3 * S(d^2), cos(d) = 1 - d^2/2 + d^4 * C(d^2) on [-pi/4, pi/4].
inline constexpr double kSin32[] = {-0.166666546022670075, 0.00833216029141087832, -0.000195152180614528881};
inline constexpr double kCos32[] = {1.0, -0.5, 0.0416666456701554282, -0.00138873156164940526,
                                    0.000024433082687078098};
inline constexpr double kSin64[] = {-0.166666666666666307,  0.00833333333332210733,  -0.00019841269829580169,
                                    2.75573136180184423e-6, -2.50507472183662264e-8, 1.58961976456392684e-10};
inline constexpr double kCos64[] = {1.0,
                                    -0.5,
                                    0.0416666666666665928,
                                    -0.00138888888888730404,
                                    0.000024801587288841402,
                                    -2.7557314176240998e-7,
                                    2.08757004162341764e-9,
                                    -1.13585139599363543e-11};

// 1/(2 pi), the first 32 bits after the point first.
inline constexpr uint32_t kInverseTwoPi[] = {
    0x28be60db, 0x9391054a, 0x7f09d5f4, 0x7d4d3770, 0x36d8a566, 0x4f10e410, 0x7f9458ea, 0xf7aef158,
    0x6dc91b8e, 0x909374b8, 0x01924bba, 0x82746487, 0x3f877ac7, 0x2c4a69cf, 0xba208d7d, 0x4baed121,
    0x3a671c09, 0xad17df90, 0x4e64758e, 0x60d4ce7d, 0x272117e2, 0xef7e4a0e, 0xc7fe25ff, 0xf7816603,
    0xfbcbc462, 0xd6829b47, 0xdb4d9fb3, 0xc9f2c26d, 0xd3d18fd9, 0xa797fa8b, 0x5d49eeb1, 0xfaf97c5e,
    0xcf41ce7d, 0xe294a4ba, 0x9afed7ec, 0x47e35742, 0x1580cc11, 0xbf1edaea, 0xfc33ef08, 0x26bd0d87};

}  // namespace lathe
