import { serveNotFound } from "../_gateway/runtime.ts";

serveNotFound();
