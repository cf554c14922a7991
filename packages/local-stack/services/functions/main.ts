import process from "node:process";
import { runtime } from "./deno-api.ts";
import { startHost } from "./host.ts";
import { startReloadingHost } from "./reload.ts";

/**
 * Serves every function of `supabase/functions` in one Deno process; deno-arguments.ts has the arguments to start it.
 */
const functionHost = process.env.RELOAD === "1" ? startReloadingHost() : await startHost();

let stopping = false;
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  await functionHost.stop();
  runtime.Deno.exit(0);
}
for (const signal of ["SIGINT", "SIGTERM"] as const) runtime.Deno.addSignalListener(signal, stop);
