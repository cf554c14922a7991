import type { AppLoadContext } from "@remix-run/server-runtime";
import type { Env } from "./env.server.ts";
import type { CookieJar } from "./http/cookies.ts";
import type { Side } from "./http/route-table.ts";
import type { TokenBearer } from "./identity/edge-proxy.ts";
import type { RequestSession } from "./identity/request-session.ts";
import type { ScheduledTask } from "./schedule/schedule.ts";
import "./load-context.ts";

/** What differs between the platform and a satellite, which are one build. */
export interface Runtime {
  settings: Pick<
    Env,
    "NODE_ENV" | "APP_NAME" | "HOST" | "PORT" | "BASE_URL" | "WEB_ALLOWED_ORIGINS" | "TRUSTED_PROXY_HOPS"
  >;
  /** Whose routes it answers. */
  side: Side;
  /** What the routes of each request work with beside the request itself. */
  given: Pick<AppLoadContext, "env" | "satellite">;
  openSession(credentials: RequestCredentials): Promise<RequestSession>;
  /** Upkeep while the process runs. */
  tasks: readonly ScheduledTask[];
  /** What is wrong with its surroundings, for the log; it runs all the same. */
  findFaults(): Promise<readonly string[]>;
}

/** By what a request says who sends it. */
export interface RequestCredentials {
  authorization: string | null;
  jar: CookieJar;
  origin: string;
  clientAddress: string;
  /** Hears whose token a cookie brought, before the database is asked whether its session lives. */
  onVerified: (bearer: TokenBearer) => void;
}
