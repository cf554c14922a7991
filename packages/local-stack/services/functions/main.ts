import process from "node:process";
import { pathToFileURL } from "node:url";
import { type Listen, responseLoop } from "./response-loops.ts";

// Serves the functions with a response loop like hosted Supabase's. The argument is the module that starts their server.
const [module = ""] = process.argv.slice(2);
const { startGateway } = (await import(pathToFileURL(module).href)) as {
  startGateway: (env: NodeJS.ProcessEnv, listen: Listen) => void;
};
startGateway(process.env, responseLoop(process.env.LOCAL_RESPONSE_LOOP));
