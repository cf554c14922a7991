import type { AppLoadContext } from "@remix-run/server-runtime";
import { type Env, parseEnv } from "./config/env.server.ts";
import { parseSatelliteEnv } from "./config/satellite-env.server.ts";
import type { CookieJar } from "./http/cookies.ts";
import type { Side } from "./http/route-table.ts";
import { findPasskeyFaults } from "./passkeys/boot-check.ts";
import { satelliteRuntime } from "./satellite-runtime.ts";
import { rotateSigningKeys } from "./schedule/rotate-signing-keys.ts";
import type { ScheduledTask } from "./schedule/schedule.ts";
import { sendDueMails } from "./schedule/send-due-mails.ts";
import { sendLogoutNotices } from "./schedule/send-logout-notices.ts";
import { upkeep, warnOfBudgets, warnOfCredits } from "./schedule/upkeep.ts";
import { openSessionServices } from "./session/edge-proxy.ts";
import { openRequestSession, type RequestSession } from "./session/request-session.ts";

/** The credentials that a request sends. */
export interface RequestCredentials {
  authorization: string | null;
  jar: CookieJar;
  origin: string;
  clientAddress: string;
}

/** What differs between the platform and a satellite, which share one build. */
export interface Runtime {
  settings: Pick<
    Env,
    | "NODE_ENV"
    | "APP_NAME"
    | "HOST"
    | "PORT"
    | "BASE_URL"
    | "WEB_ALLOWED_ORIGINS"
    | "TRUSTED_PROXY_HOPS"
    | "BRAND_NAME"
    | "BRAND_ACCENT"
    | "BRAND_MARK"
  > &
    // A satellite keeps no record of where its visitors are.
    Partial<Pick<Env, "VISITOR_CITY_HEADER" | "VISITOR_COUNTRY_HEADER">>;
  /** Whose routes it serves. */
  side: Side;
  given: Pick<AppLoadContext, "env" | "satellite">;
  openSession(credentials: RequestCredentials): Promise<RequestSession>;
  /** Upkeep while the process runs. */
  tasks: readonly ScheduledTask[];
  /** Returns faults of the surroundings for the log; they don't stop the server. */
  findFaults(): Promise<readonly string[]>;
}

/**
 * Opens the runtime that the environment asks for.
 * @throws Error with one line a fault, each naming the variable and what to do
 */
export function openRuntime(source: Record<string, string | undefined>): Runtime {
  const isPlatform = (source.APP_NAME || "web") === "web";
  return isPlatform ? platformRuntime(parseEnv(source)) : satelliteRuntime(parseSatelliteEnv(source));
}

function platformRuntime(env: Env): Runtime {
  const services = openSessionServices(env);
  return {
    settings: env,
    side: "platform",
    tasks: [
      ...upkeep(env),
      ...(env.APP_SESSION_SECRET ? [rotateSigningKeys(env), sendLogoutNotices(env)] : []),
      ...(env.SMTP_URL ? [sendDueMails(env), warnOfBudgets(env), warnOfCredits(env)] : []),
    ],
    findFaults: async () => (await findPasskeyFaults(env)) ?? [],
    given: { env },
    openSession: async (credentials) => openRequestSession({ env, services: await services, ...credentials }),
  };
}
