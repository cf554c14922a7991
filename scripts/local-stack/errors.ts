/** A failure that the person at the terminal can act on: printed as it is, without a stack trace. */
export class StackError extends Error {
  override name = "StackError";
}

/** A service cannot listen, since another process took its port before it did. */
export class PortTaken extends StackError {
  override name = "PortTaken";
}

/** The text of anything thrown. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.map(messageOf).join("; ");
  return error instanceof Error ? error.message : String(error);
}

/** Anything thrown as an error: itself where it is one. */
export function errorOf(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(messageOf(thrown));
}

/** The code of a system or database error (`ENOENT`, `42P01`), if it has one. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
