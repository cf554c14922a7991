export interface SecurityHeaderOptions {
  nonce: string;
  /** Additional targets of this page's forms, including those of a form's redirects. */
  formTargets: ReadonlySet<string>;
  /** Origins whose scripts and frames this page uses. */
  widgets: ReadonlySet<string>;
  https: boolean;
  /** Allows Vite's client, which injects styles and opens a socket. */
  development: boolean;
}

/** Returns the headers for every response. They forbid inline scripts and styles, framing and content sniffing. */
export function securityHeaders(options: SecurityHeaderOptions): Record<string, string> {
  const { nonce, formTargets, widgets, https, development } = options;
  const policy = [
    "default-src 'self'",
    ["script-src 'self'", `'nonce-${nonce}'`, ...widgets].join(" "),
    ...(widgets.size > 0 ? [["frame-src", ...widgets].join(" ")] : []),
    `style-src 'self'${development ? " 'unsafe-inline'" : ""}`,
    "img-src 'self' data:",
    // Audio that a page holds in memory or inline.
    "media-src 'self' blob: data:",
    `connect-src 'self'${development ? " ws:" : ""}`,
    "object-src 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    `form-action ${["'self'", ...formTargets].join(" ")}`,
    ...(https ? ["upgrade-insecure-requests"] : []),
  ];
  return {
    "Content-Security-Policy": policy.join("; "),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    // With no-referrer, browsers would post `Origin: null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ...(https ? { "Strict-Transport-Security": "max-age=63072000; includeSubDomains" } : {}),
  };
}
