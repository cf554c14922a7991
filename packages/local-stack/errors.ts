/** A failure that the person at the terminal can fix. It is printed as it is, without a stack trace. */
export class StackError extends Error {
  override name = "StackError";
}

/** A service cannot listen because another process took its port first. */
export class PortTaken extends StackError {
  override name = "PortTaken";
}

/** Returns the text of anything thrown. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.map(messageOf).join("; ");
  return error instanceof Error ? error.message : String(error);
}

/** Converts anything thrown to an Error, and returns an Error unchanged. */
export function errorOf(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(messageOf(thrown));
}

/** Returns the code of a system or database error (`ENOENT`, `42P01`), if it has one. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
