import { createRouter } from "../_gateway/http/router.ts";
import { serve } from "../_gateway/runtime.ts";

// The gateway doesn't implement OpenAI's Realtime API. Without routes, the router answers 404 in OpenAI's error format
// instead of the platform's.
serve((gateway) => createRouter([], gateway));
