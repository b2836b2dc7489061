#include <lathe/lathe.h>

#include <cstdio>

int main() {
  try {
    lathe::KnobScope scope(lathe::Knob::DEBUG, 1);
    if (lathe::knob(lathe::Knob::DEBUG) == 1) lathe::value_error("axis {} is out of range", 3);
  } catch (const lathe::UserError& error) {
    std::puts(error.what());
    return 0;
  }
  return 1;
}
