import { clearAttempts } from "./abuse/clear-attempts.ts";
import { sweepDevices } from "./accounts/sweep-devices.ts";
import type { Runtime } from "./app.ts";
import type { Env } from "./env.server.ts";
import { openRequestSession } from "./identity/request-session.ts";
import { openSessionServices } from "./identity/session-services.ts";
import { sweepChallenges } from "./login-challenges/sweep-challenges.ts";
import { resendMails } from "./mail/resend-mails.ts";
import { findPasskeyFaults } from "./passkeys/boot-check.ts";
import { sweepRecoveries } from "./recovery/sweep-recoveries.ts";
import { sweepAppCredentials } from "./satellites/sweep-app-credentials.ts";
import { forgetExpired } from "./schedule/forget-expired.ts";
import { rollUpUsage } from "./schedule/roll-up-usage.ts";
import { sweepContent } from "./schedule/sweep-content.ts";
import { sweepOAuth } from "./schedule/sweep-oauth.ts";
import { sweepRuns } from "./schedule/sweep-runs.ts";
import { warnOfBudgets } from "./schedule/warn-of-budgets.ts";

/** The platform itself: people's sessions of the identity backend, by cookie or bearer. */
export function platformRuntime(env: Env): Runtime {
  const services = openSessionServices(env);
  return {
    settings: env,
    side: "platform",
    tasks: [
      clearAttempts(env),
      sweepRuns({ supabaseUrl: env.SUPABASE_URL, secretKey: env.SUPABASE_SECRET_KEY }),
      sweepContent(env),
      forgetExpired(env),
      sweepAppCredentials(env),
      sweepOAuth(env),
      sweepChallenges(env),
      rollUpUsage(env),
      sweepDevices(env),
      sweepRecoveries(env),
      ...(env.SMTP_URL ? [resendMails(env), warnOfBudgets(env)] : []),
    ],
    findFaults: async () => (await findPasskeyFaults(env)) ?? [],
    open: async (credentials) => ({
      env,
      session: await openRequestSession({ env, services: await services, ...credentials }),
    }),
  };
}
