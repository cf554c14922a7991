import { createRouter } from "../_gateway/http/router.ts";
import { serve } from "../_gateway/runtime.ts";

// OpenAI has this path, but the gateway does not. This function answers 404 in OpenAI's error format instead of
// Supabase's.
serve((gateway) => createRouter([], gateway));
