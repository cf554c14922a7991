import { serve } from "../_gateway/runtime.ts";
import { createHandler } from "./handler.ts";

// It adds up a month of runs. However often it is called, it takes no more than this from the connections for calls.
serve(createHandler, { connections: 2 });
