import { serve } from "../_gateway/runtime.ts";
import { createHandler } from "./handler.ts";

// Long polls of an isolate share one statement a second, so two connections suffice.
serve(createHandler, { connections: 2 });
