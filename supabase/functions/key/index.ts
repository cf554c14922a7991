import { serve } from "../_gateway/runtime.ts";
import { createHandler } from "./handler.ts";

// Describing a key sums a month of runs. Even if it is requested often, it uses only these connections and leaves the
// others for calls.
serve(createHandler, { connections: 2 });
