/** The closed list of error codes that callers can rely on. */
export type SatelliteErrorCode =
  | "config_invalid"
  | "sign_in_required"
  | "cross_origin"
  | "platform_unavailable"
  | "app_rejected"
  | "invalid_request"
  | "forbidden"
  | "not_found"
  | "rate_limited";

/** Base class of every error that this package throws. */
export class SatelliteError extends Error {
  override name = "SatelliteError";
  readonly code: SatelliteErrorCode;
  /** The HTTP status to answer with. */
  readonly status: number;

  constructor(code: SatelliteErrorCode, { status, message }: { status: number; message: string }) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** The options or the environment are invalid. The message has one line for each fault. */
export class SatelliteConfigError extends SatelliteError {
  override name = "SatelliteConfigError";
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super("config_invalid", { status: 500, message: faults.join("\n") });
    this.faults = faults;
  }
}

/** The visitor is not signed in. `response` sends the browser to the platform's sign-in and back. */
export class SignInRequiredError extends SatelliteError {
  override name = "SignInRequiredError";
  readonly response: Response;

  constructor(response: Response) {
    super("sign_in_required", { status: 401, message: "Sign in to continue." });
    this.response = response;
  }
}

/** Thrown for a request that changes state but did not come from this app's own pages. Its session is not used. */
export class CrossOriginError extends SatelliteError {
  override name = "CrossOriginError";

  constructor() {
    super("cross_origin", { status: 403, message: "The request did not come from this app's own pages." });
  }
}

/** The platform did not answer, or its answer says nothing about the session. Sessions and cookies are kept. */
export class PlatformUnavailableError extends SatelliteError {
  override name = "PlatformUnavailableError";

  constructor(message: string) {
    super("platform_unavailable", { status: 503, message });
  }
}

/** The platform rejects this app's credentials: unknown name, wrong secret, or disabled app. */
export class AppRejectedError extends SatelliteError {
  override name = "AppRejectedError";

  constructor(appName: string) {
    const check = "Check APP_NAME and APP_SECRET, and that the app is enabled in the console.";
    super("app_rejected", { status: 503, message: `The platform rejects the credentials of “${appName}”. ${check}` });
  }
}

/** The central API refused a call. */
export class CentralApiError extends SatelliteError {
  override name = "CentralApiError";
}
