"""One token of a LLaMA of 1B weights (f32, the shapes of decode_llama1b) in PyTorch, by products of a matrix and a vector.
As models are usually written, with F.linear of one row, a token takes `linear_sec`.
Usage: torch_decode.py THREADS SECONDS [ONLY]; BENCH_LAYERS: layers, where memory is short."""
import json, os, sys, time
import torch
import torch.nn.functional as F

NAME = "decode_llama1b"
threads, seconds = int(sys.argv[1]), float(sys.argv[2])
only = [p for p in (sys.argv[3] if len(sys.argv) > 3 else "").split(",") if p]
if only and not any(NAME.startswith(p) for p in only): sys.exit()
torch.set_num_threads(threads)
torch.manual_seed(0)
DIM, HEADS, KV, HIDDEN, VOCABULARY, CONTEXT = 2048, 32, 8, 8192, 32000, 256
LAYERS, HEAD = int(os.environ.get("BENCH_LAYERS", 16)), DIM // HEADS
AT = CONTEXT // 2

def weight(n, k): return torch.empty(n, k).uniform_(-1, 1).div_(k ** 0.5)
def vector_product(w, x): return w @ x
def linear(w, x): return F.linear(x[None], w)[0]
product = vector_product
def norm(x, w): return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w

class Layer:
  def __init__(self):
    self.q, self.k, self.v, self.o = weight(DIM, DIM), weight(KV * HEAD, DIM), weight(KV * HEAD, DIM), weight(DIM, DIM)
    self.gate, self.up, self.down = weight(HIDDEN, DIM), weight(HIDDEN, DIM), weight(DIM, HIDDEN)
    self.n1, self.n2 = torch.ones(DIM), torch.ones(DIM)
    self.keys, self.values = torch.zeros(KV, CONTEXT, HEAD), torch.zeros(KV, CONTEXT, HEAD)
  def __call__(self, x, cos, sin):
    def turned(t):
      a, b = t.chunk(2, -1)
      return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)
    y = norm(x, self.n1)
    q = turned(product(self.q, y).view(KV, HEADS // KV, HEAD))
    self.keys[:, AT] = turned(product(self.k, y).view(KV, HEAD))
    self.values[:, AT] = product(self.v, y).view(KV, HEAD)
    k, v = self.keys[:, :AT + 1], self.values[:, :AT + 1]
    a = (q @ k.transpose(1, 2) * HEAD ** -0.5).softmax(-1) @ v
    x = x + product(self.o, a.reshape(DIM))
    y = norm(x, self.n2)
    return x + product(self.down, F.silu(product(self.gate, y)) * product(self.up, y))

with torch.no_grad():
  layers, embedding, head, last = [Layer() for _ in range(LAYERS)], weight(VOCABULARY, DIM), weight(VOCABULARY, DIM), torch.ones(DIM)
  angle = AT * 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)
  cos, sin = angle.cos(), angle.sin()
  def step():
    x = embedding[17]
    for layer in layers: x = layer(x, cos, sin)
    return product(head, norm(x, last))
  def timed():
    for _ in range(3): step()
    times, start = [], time.perf_counter()
    while time.perf_counter() - start < seconds or len(times) < 5:
      began = time.perf_counter(); step(); times.append(time.perf_counter() - began)
    return sorted(times)
  times = timed()
  product = linear
  usual = timed()
print(json.dumps(dict(peer="torch", workload=NAME, threads=threads, sec=times[len(times) // 2], best=times[0], n=len(times),
                      linear_sec=usual[len(usual) // 2], layers=LAYERS)))
