#pragma once

// The whole public interface.

#include "base/error.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/result.h"

// The library's own assertion. Its name is left to the program, and to the program's test framework.
#undef CHECK
