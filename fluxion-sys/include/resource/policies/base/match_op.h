/* Where programs written for flux-sched look for what reapi_cli.h has here. */
#include "../../../reapi_cli.h"
