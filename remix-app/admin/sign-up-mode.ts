/** Who may create an account: everyone, or only invited people. */
export type SignUpMode = "open" | "invitation";

/** The change that leaves each mode. Only closing sign-up stops people. */
export const signUpChanges = {
  open: { to: "invitation", title: "Close sign-up", destroys: true },
  invitation: { to: "open", title: "Open sign-up", destroys: false },
} as const satisfies Record<SignUpMode, { to: SignUpMode; title: string; destroys: boolean }>;
