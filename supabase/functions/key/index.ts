import { serve } from "../_gateway/runtime.ts";
import { createHandler } from "./handler.ts";

// Describing a key sums a month of runs. With only these connections, frequent requests leave the others for calls.
serve(createHandler, { connections: 2 });
