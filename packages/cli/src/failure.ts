/** The causes of failure that commands distinguish. */
export type FailureKind = "usage" | "signed-out" | "unreachable" | "refused" | "gone" | "configuration";

/** A failure with a message for the person at the terminal, who can do something about it. */
export class Failure extends Error {
  readonly kind: FailureKind;

  constructor(kind: FailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Creates the failure of a command that requires a sign-in. */
export function createSignedOutFailure(message = "You’re not signed in."): Failure {
  return new Failure("signed-out", `${message} Run: gatehouse login`);
}
