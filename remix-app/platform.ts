import type { Env } from "./env.server.ts";
import { openRequestSession } from "./identity/request-session.ts";
import { openSessionServices } from "./identity/session-services.ts";
import { resendMails } from "./mail/resend-mails.ts";
import { findPasskeyFaults } from "./passkeys/boot-check.ts";
import type { Runtime } from "./runtime.ts";
import { upkeep } from "./schedule/upkeep.ts";
import { warnOfBudgets } from "./schedule/warn-of-budgets.ts";

/** The platform itself: people's sessions of the identity backend, by cookie or bearer. */
export function platformRuntime(env: Env): Runtime {
  const services = openSessionServices(env);
  return {
    settings: env,
    side: "platform",
    tasks: [...upkeep(env), ...(env.SMTP_URL ? [resendMails(env), warnOfBudgets(env)] : [])],
    findFaults: async () => (await findPasskeyFaults(env)) ?? [],
    given: { env },
    openSession: async (credentials) => openRequestSession({ env, services: await services, ...credentials }),
  };
}
