import { serve } from "../_gateway/runtime.ts";
import { createHandler } from "./handler.ts";

// It adds up a month of runs: as often as anybody asks, never more than this at once beside the calls themselves.
serve(createHandler, { connections: 2 });
