import type { Context, MiddlewareHandler } from "hono";
import type { CentralApi } from "./central-api.ts";
import type { SatelliteOptions } from "./options.ts";
import { createSatellite as createCore } from "./satellite.ts";
import type { SatelliteUser } from "./sessions.ts";

/** The variables that the middleware sets: `new Hono<SatelliteEnv>()`. */
export type SatelliteEnv = { Variables: { user: SatelliteUser | null } };

/** Hono middleware that answers the sign-in endpoints and sets `c.get("user")`. */
export interface HonoSatellite extends MiddlewareHandler<SatelliteEnv> {
  /** Redirects anonymous visitors to the platform's sign-in page, which sends them back afterwards. */
  requireUser: MiddlewareHandler<SatelliteEnv>;
  central(c: Context): CentralApi;
  signOut(c: Context): Promise<void>;
}

/** Creates the satellite as Hono middleware. @throws SatelliteConfigError */
export function createSatellite(options?: SatelliteOptions): HonoSatellite {
  const core = createCore(options);

  /** Also answers the error that a later handler throws if its call to the central API fails. */
  async function middleware(c: Context<SatelliteEnv>, next: () => Promise<void>): Promise<Response | undefined> {
    const request = c.req.raw;
    const cookies: string[] = [];
    core.attach(request, { setCookie: (header) => void cookies.push(header) });
    const response = await answered();
    if (response) {
      for (const cookie of cookies) response.headers.append("Set-Cookie", cookie);
      return response;
    }
    await next();
    const failure = c.error && core.errorResponse(c.error, request);
    if (failure) {
      c.res = undefined;
      c.res = failure;
    }
    if (cookies.length > 0 && !c.res.headers.has("Cache-Control")) c.header("Cache-Control", "private, no-store");
    for (const cookie of cookies) c.header("Set-Cookie", cookie, { append: true });

    async function answered(): Promise<Response | null> {
      try {
        const response = await core.handle(request);
        if (response) return response;
        c.set("user", await core.getUser(request));
        return null;
      } catch (error) {
        const response = core.errorResponse(error, request);
        if (response) return response;
        throw error;
      }
    }
  }

  return Object.assign(middleware as MiddlewareHandler<SatelliteEnv>, {
    async requireUser(c: Context<SatelliteEnv>, next: () => Promise<void>) {
      try {
        c.set("user", await core.requireUser(c.req.raw));
      } catch (error) {
        // Handles the error here, because Hono logs errors that leave a handler.
        const response = core.errorResponse(error, c.req.raw);
        if (response) return response;
        throw error;
      }
      await next();
    },
    central: (c: Context) => core.central(c.req.raw),
    signOut: (c: Context) => core.signOut(c.req.raw),
  });
}
