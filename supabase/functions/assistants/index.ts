import { createRouter } from "../_gateway/http/router.ts";
import { serve } from "../_gateway/runtime.ts";

// Answers every request with 404 in OpenAI's error format, since the gateway does not support OpenAI's assistants.
// Without this function, Supabase would answer in its own format.
serve((gateway) => createRouter([], gateway));
