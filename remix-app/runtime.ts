import { type Env, parseEnv } from "./config/env.server.ts";
import type { CookieJar } from "./http/cookies.ts";
import { findPasskeyFaults } from "./passkeys/boot-check.ts";
import { rotateSigningKeys } from "./schedule/rotate-signing-keys.ts";
import type { ScheduledTask } from "./schedule/schedule.ts";
import { sendDueMails } from "./schedule/send-due-mails.ts";
import { sendLogoutNotices } from "./schedule/send-logout-notices.ts";
import { createUpkeepTasks, warnOfBudgets, warnOfCredits } from "./schedule/upkeep.ts";
import { openSessionServices } from "./session/edge-proxy.ts";
import { openRequestSession, type RequestSession } from "./session/request-session.ts";
import type { WorkspaceQuery } from "./session/session-state.ts";

export interface RequestCredentials {
  authorization: string | null;
  jar: CookieJar;
  isPrefetch?: boolean;
  workspace?: WorkspaceQuery | null;
  origin: string;
  clientAddress: string;
}

export interface Runtime {
  settings: Env;
  openSession(credentials: RequestCredentials): Promise<RequestSession>;
  /** Scheduled maintenance while the process runs. */
  tasks: readonly ScheduledTask[];
  /** Returns faults of the environment for the log. They don't stop the server. */
  findFaults(): Promise<readonly string[]>;
}

/**
 * Opens the runtime that the environment selects.
 * @throws Error with one line per fault, each naming the variable and what to do
 */
export function openRuntime(source: Record<string, string | undefined>): Runtime {
  const env = parseEnv(source);
  const services = openSessionServices(env);
  return {
    settings: env,
    tasks: [
      ...createUpkeepTasks(env),
      ...(env.APP_SESSION_SECRET ? [rotateSigningKeys(env), sendLogoutNotices(env)] : []),
      ...(env.SMTP_URL ? [sendDueMails(env), warnOfBudgets(env), warnOfCredits(env)] : []),
    ],
    findFaults: async () => (await findPasskeyFaults(env)) ?? [],
    openSession: async (credentials) => openRequestSession({ env, services: await services, ...credentials }),
  };
}
