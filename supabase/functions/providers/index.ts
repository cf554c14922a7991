import { serve } from "../_gateway/runtime.ts";
import { createHandler } from "./handler.ts";

serve(createHandler);
