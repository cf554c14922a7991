import { serve } from "../_gateway/runtime.ts";
import { createHandler } from "./handler.ts";

// Each `GET /v1/key` request sums a month of runs. The limit of two connections keeps the other connections free for
// model calls, however frequent these requests are.
serve(createHandler, { connections: 2 });
