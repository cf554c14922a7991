import { createRouter } from "../_gateway/http/router.ts";
import { serve } from "../_gateway/runtime.ts";

// The gateway does not serve this OpenAI path. The response is a 404 in OpenAI's error format instead of the
// platform's.
serve((gateway) => createRouter([], gateway));
