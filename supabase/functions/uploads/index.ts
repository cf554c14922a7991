import { createRouter } from "../_gateway/http/router.ts";
import { serve } from "../_gateway/runtime.ts";

// OpenAI serves this path but the gateway doesn't. Answers 404 in OpenAI's error format instead of the platform's.
serve((gateway) => createRouter([], gateway));
