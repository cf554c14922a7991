import { serve } from "../_gateway/runtime.ts";
import { createHandler } from "./handler.ts";

// Describing a key adds up a month of runs. However often it is requested, it uses no more connections than these, so
// calls keep theirs.
serve(createHandler, { connections: 2 });
