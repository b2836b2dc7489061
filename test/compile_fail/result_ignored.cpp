#include "base/result.h"

lathe::Result<int> parse();

void caller() {
#ifdef CONTROL
  auto result = parse();
  (void)result;
#else
  parse();  // EXPECT: nodiscard
#endif
}
