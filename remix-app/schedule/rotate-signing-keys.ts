import type { Env } from "../config/env.server.ts";
import { rotateStoredKeys } from "../openid/stored-keys.ts";
import type { ScheduledTask } from "./schedule.ts";

const intervalMs = 60 * 60_000;

/** Rotates the provider's signing keys every 90 days. The next key is published a day before it signs. */
export function rotateSigningKeys(env: Env): ScheduledTask {
  return {
    name: "rotate-signing-keys",
    intervalMs,
    async run() {
      try {
        await rotateStoredKeys({ env });
      } catch (error) {
        throw error instanceof Response ? new Error(`it was refused with ${error.status}`) : error;
      }
    },
  };
}
