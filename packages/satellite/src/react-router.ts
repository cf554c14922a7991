import { type CentralApi, createCentralApi } from "./central-api.ts";
import type { SatelliteOptions } from "./options.ts";
import { createSatellite as createCore } from "./satellite.ts";
import type { SatelliteUser } from "./sessions.ts";

/** A React Router context key, as returned by `createContext`. */
interface ContextKey {
  defaultValue?: Request;
}
interface ContextProvider {
  get(key: ContextKey): Request;
  set(key: ContextKey, value: Request): void;
}
interface RouteArguments {
  request: Request;
  // biome-ignore lint/suspicious/noExplicitAny: React Router's own type, which this package does not depend on
  context: any;
}

export interface ReactRouterSatellite {
  /** Answers the sign-in endpoints, opens the session and sets its cookies. Use it on the root route. */
  middleware(args: RouteArguments, next: () => Promise<unknown>): Promise<Response>;
  getUser(args: RouteArguments): Promise<SatelliteUser | null>;
  /** Like `getUser`, but throws the redirect to the platform for people who are not signed in. */
  requireUser(args: RouteArguments): Promise<SatelliteUser>;
  central(args: RouteArguments): CentralApi;
  signOut(args: RouteArguments): Promise<void>;
}

/** Creates the satellite for React Router's framework mode. @throws SatelliteConfigError */
export function createSatellite(options?: SatelliteOptions): ReactRouterSatellite {
  const core = createCore(options);
  const key: ContextKey = {};

  /** Returns the request as the server received it. Loaders get only a copy. */
  const requestOf = ({ context }: RouteArguments): Request => (context as ContextProvider).get(key);

  async function orResponse<Result>(
    args: RouteArguments,
    work: (request: Request) => Promise<Result>,
  ): Promise<Result> {
    const request = requestOf(args);
    try {
      return await work(request);
    } catch (error) {
      throw core.errorResponse(error, request) ?? error;
    }
  }

  return {
    async middleware({ request, context }, next) {
      const response = await core.handle(request);
      if (response) return response;
      (context as ContextProvider).set(key, request);
      try {
        await core.getUser(request);
      } catch (error) {
        const refusal = core.errorResponse(error, request);
        if (refusal) return refusal;
        throw error;
      }
      return core.commit(request, (await next()) as Response);
    },
    getUser: (args) => orResponse(args, (request) => core.getUser(request)),
    requireUser: (args) => orResponse(args, (request) => core.requireUser(request)),
    central: (args) =>
      createCentralApi((path, init) => orResponse(args, (request) => core.central(request).fetch(path, init))),
    signOut: (args) => core.signOut(requestOf(args)),
  };
}
