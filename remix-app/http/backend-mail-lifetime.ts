/** The lifetime of the identity backend's mailed codes and links in seconds (`otp_expiry` in supabase/config.toml). */
export const backendMailSeconds = 3_600;

/** {@link backendMailSeconds} in words. */
export const backendMailLifetime = `${backendMailSeconds / 3_600} hour`;
