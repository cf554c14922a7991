import type { AppLoadContext } from "@remix-run/server-runtime";
import type { SatelliteEnv } from "../../config/satellite-env.server.ts";
import type { CentralClient } from "./central-client.ts";

/** What a satellite's routes work with, in the place of the platform's settings and session. */
export interface Satellite {
  env: SatelliteEnv;
  central: CentralClient;
}

/** The satellite that this process is. Its routes are reached on none else. */
export function satelliteOf({ satellite }: Pick<AppLoadContext, "satellite">): Satellite {
  if (!satellite) throw new Error("this process is no satellite");
  return satellite;
}
