// Losses of a training as a picture.
#pragma once
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace train_lm {

struct Point {
  double step, loss;
};

struct Curve {
  std::string_view name, colour;
  std::vector<Point> points;
};

// Means of `window` neighbours, so that a curve of noisy losses can be read.
inline std::vector<Point> smoothed(const std::vector<float>& losses, size_t window) {
  std::vector<Point> out;
  for (size_t at = 0; at + window <= losses.size(); at += window) {
    double sum = 0;
    for (size_t i = at; i < at + window; i++) sum += losses[i];
    out.push_back(
        {static_cast<double>(at) + static_cast<double>(window) / 2, sum / static_cast<double>(window)});
  }
  return out;
}

// An SVG image: losses over steps, with a level line for the loss of `baseline`.
inline std::string loss_plot(const std::vector<Curve>& curves, std::string_view baseline,
                             double baseline_loss, double steps) {
  constexpr double kWidth = 720, kHeight = 420, kLeft = 50, kBottom = 380, kRight = 700, kTop = 20;
  double low = baseline_loss, high = baseline_loss;
  for (const Curve& curve : curves)
    for (const Point& p : curve.points) low = std::min(low, p.loss), high = std::max(high, p.loss);
  low = std::floor(low * 2) / 2, high = std::ceil(high * 2) / 2 + 1e-9;
  const auto x = [&](double step) { return kLeft + (kRight - kLeft) * step / std::max(1.0, steps); };
  const auto y = [&](double loss) {
    return kBottom - (kBottom - kTop) * (loss - low) / std::max(0.5, high - low);
  };
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
)",
      kWidth, kHeight);
  const auto text = [&](double at_x, double at_y, std::string_view anchor, std::string_view colour,
                        std::string_view s) {
    out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n", at_x,
                       at_y, anchor, colour, s);
  };
  const auto line = [&](double x0, double y0, double x1, double y1, std::string_view style) {
    out += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x0, y0, x1, y1,
                       style);
  };
  for (double loss = low; loss <= high; loss += high - low > 4 ? 1 : 0.5) {
    line(kLeft, y(loss), kRight, y(loss), "stroke=\"#ddd\"");
    text(kLeft - 6, y(loss) + 4, "end", "#333", fmt::format("{:.1f}", loss));
  }
  for (int i = 0; i <= 4; i++)
    text(x(steps * i / 4), kBottom + 18, "middle", "#333", fmt::format("{:.0f}", steps * i / 4));
  text((kLeft + kRight) / 2, kHeight - 6, "middle", "#333", "steps; loss in nats a token");
  line(kLeft, y(baseline_loss), kRight, y(baseline_loss), "stroke=\"#888\" stroke-dasharray=\"6 4\"");
  text(kRight, y(baseline_loss) - 5, "end", "#666", fmt::format("{} {:.3f}", baseline, baseline_loss));
  double legend = kTop + 14;
  for (const Curve& curve : curves) {
    out += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"", curve.colour);
    for (const Point& p : curve.points) out += fmt::format("{:.1f},{:.1f} ", x(p.step), y(p.loss));
    out += "\"/>\n";
    const double last = curve.points.empty() ? 0 : curve.points.back().loss;
    text(kRight, legend, "end", curve.colour, fmt::format("{}, at the end {:.3f}", curve.name, last));
    legend += 16;
  }
  return out + "</svg>\n";
}

}  // namespace train_lm
