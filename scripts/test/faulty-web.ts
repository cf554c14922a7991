import type { WebProcess } from "../../remix-app/testing/web-process.ts";
import { type IdentityBackend, startIdentityBackend } from "./identity-backend.ts";

/** A web server whose identity backend and database fail as the test says. */
export interface FaultyWeb {
  backend: IdentityBackend;
  web: Omit<WebProcess, "stop" | "child">;
}

let started: ReturnType<typeof start> | undefined;

/**
 * Returns the faulty web server that the test files of this process share, with a new account and without faults. It
 * trusts one proxy, and ends with the process.
 */
export async function borrowFaultyWeb(): Promise<FaultyWeb> {
  started ??= start();
  // A failed start must not fail the files that follow.
  started.catch(() => {
    started = undefined;
  });
  const { backend, web } = await started;
  backend.reset();
  await backend.newPerson();
  const begin = web.output().length;
  return { backend, web: { ...web, output: () => web.output().slice(begin) } };
}

async function start() {
  const backend = await startIdentityBackend();
  const web = await backend.startWeb({
    env: { TRUSTED_PROXY_HOPS: "1" },
    nodeOptions: ["--import", new URL("../../remix-app/testing/end-with-parent.ts", import.meta.url).href],
    told: true,
  });
  return { backend, web };
}
