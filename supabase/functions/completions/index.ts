import { createRouter } from "../_gateway/http/router.ts";
import { serve } from "../_gateway/runtime.ts";

// OpenAI has this path but the gateway doesn't: answers 404 in OpenAI's error format, not the platform's.
serve((gateway) => createRouter([], gateway));
