import { type CentralApi, createCentralApi } from "./central-api.ts";
import { SignInRequiredError } from "./errors.ts";
import type { SatelliteOptions } from "./options.ts";
import { createSatellite as createCore, type Satellite } from "./satellite.ts";
import type { SatelliteUser } from "./sessions.ts";

/** Headers that pass a page its own path and method, because Next does not. */
const pathHeader = "x-gatehouse-path";
const methodHeader = "x-gatehouse-method";
const sharedSatelliteKey = Symbol.for("@gatehousehq/satellite/next");

export interface NextSatellite {
  /** Answers the sign-in endpoints and refreshes the session. Call it in `proxy.ts`. */
  proxy(request: Request): Promise<Response>;
  /** Returns the signed-in person, or null, in server components, server actions and route handlers. */
  getUser(): Promise<SatelliteUser | null>;
  /** Like `getUser`, but redirects a signed-out person to the platform to sign in, and then back. */
  requireUser(): Promise<SatelliteUser>;
  /** Returns the central API, called as the person of the current request. */
  central(): Promise<CentralApi>;
}

/** Creates the satellite for Next's app router. @throws SatelliteConfigError when the server starts */
export function createSatellite(options?: SatelliteOptions): NextSatellite {
  // During a build, Next evaluates this module without the server's environment.
  if (process.env.NEXT_PHASE !== "phase-production-build") core();

  /**
   * Returns one instance per process. Next bundles the proxy and the pages separately, and both need the same cache.
   */
  function core(): Satellite {
    const held = globalThis as { [sharedSatelliteKey]?: Satellite };
    held[sharedSatelliteKey] ??= createCore(options);
    return held[sharedSatelliteKey];
  }

  async function current(): Promise<{ request: Request; path: string }> {
    const { headers } = await import("next/headers");
    const list = await headers();
    const path = list.get(pathHeader) ?? "/";
    const request = new Request(core().origin, { method: list.get(methodHeader) ?? "GET", headers: new Headers(list) });
    // Pages cannot set cookies, and the proxy has already refreshed the session.
    core().attach(request, { setCookie: null });
    return { request, path };
  }

  /** Makes a redirect's `Location` absolute, because Next refuses a relative one from its proxy. */
  function withAbsoluteLocation(response: Response): Response {
    const location = response.headers.get("Location");
    if (location?.startsWith("/")) response.headers.set("Location", `${core().origin}${location}`);
    return response;
  }

  async function leadToSignIn(path: string): Promise<never> {
    const { redirect } = await import("next/navigation");
    return redirect(`/sign-in?${new URLSearchParams({ returnTo: path })}`);
  }

  return {
    async proxy(request) {
      const response = await core().handle(request);
      if (response) return withAbsoluteLocation(response);
      try {
        await core().getUser(request);
      } catch (error) {
        const refusal = core().errorResponse(error, request);
        if (refusal) return refusal;
        throw error;
      }
      const { NextResponse } = await import("next/server");
      const headers = new Headers(request.headers);
      const { pathname, search } = new URL(request.url);
      headers.set(methodHeader, request.method);
      headers.set(pathHeader, request.method === "GET" ? `${pathname}${search}` : "/");
      return core().commit(request, NextResponse.next({ request: { headers } }));
    },
    async getUser() {
      // Reads the headers first, which tells Next not to render the page at build time.
      const { request } = await current();
      return core().getUser(request);
    },
    async requireUser() {
      const { request, path } = await current();
      return (await core().getUser(request)) ?? leadToSignIn(path);
    },
    async central() {
      const { request, path } = await current();
      const api = core().central(request);
      const fetchCentral: CentralApi["fetch"] = (target, init) =>
        api.fetch(target, init).catch((error: unknown) => {
          if (error instanceof SignInRequiredError) return leadToSignIn(path);
          throw error;
        });
      return createCentralApi(fetchCentral);
    },
  };
}
