/** Where an account's authenticators and recovery codes are listed. */
export const securityPath = "/settings/security";
