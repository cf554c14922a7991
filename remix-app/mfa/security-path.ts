/** The page that lists an account's authenticators and recovery codes. */
export const securityPath = "/settings/security";
