import type { Env } from "./config/env.server.ts";
import type { SatelliteEnv } from "./config/satellite-env.server.ts";
import type { Runtime } from "./runtime.ts";
import { createCentralClient } from "./satellites/own/central-client.ts";
import type { RequestSession } from "./session/request-session.ts";

function notHere(): never {
  throw new Error("a satellite has no settings of the platform's, and no session of the identity backend");
}

/** Routes of the platform are not found on a satellite; one that slipped in fails at its first look. */
const noEnv = new Proxy({}, { get: notHere }) as Env;

const nobody: RequestSession = {
  auth: { status: "anonymous" },
  device: null,
  accounts: [],
  state: async () => ({ status: "over" }),
  clear: notHere,
  stored: null,
  deviceCookie: null,
  issuedState: notHere,
  approvalProof: notHere,
  store: notHere,
  storeDevice: notHere,
  storeAddition: notHere,
  refresh: notHere,
  get vault() {
    return notHere();
  },
  settle: async () => {},
  authClient: notHere,
  mailClient: notHere,
};

/** A satellite: it knows people by their app sessions, and reaches the platform and nothing else. */
export function satelliteRuntime(env: SatelliteEnv): Runtime {
  const satellite = { env, central: createCentralClient(env) };
  return {
    settings: env,
    side: "satellite",
    tasks: [],
    findFaults: async () => [],
    given: { env: noEnv, satellite },
    openSession: async () => nobody,
  };
}
