import { createRouter } from "../_gateway/http/router.ts";
import { serve } from "../_gateway/runtime.ts";

// OpenAI has this path and we do not: 404 in OpenAI's error shape, which the platform does not use.
serve((gateway) => createRouter([], gateway));
