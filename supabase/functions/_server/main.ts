import process from "node:process";
import { listen } from "./listen.ts";
import { startGateway } from "./start-gateway.ts";

// Serves all functions in one process, outside Supabase: docs/deploying.md. Ends after SIGTERM or SIGINT.
startGateway(process.env, listen);
