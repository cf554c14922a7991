import { serve } from "../_gateway/runtime.ts";
import { createHandler } from "./handler.ts";

// Describing a key sums a month of runs. The limit of two connections leaves the other connections to model calls, even
// if requests for descriptions are frequent.
serve(createHandler, { connections: 2 });
