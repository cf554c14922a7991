/** Whoever has no good credential is told that and nothing of their request: 401 and 403 come before 400. */
export async function readOrAuthenticate<Result>(check: () => Promise<unknown>, read: () => Result): Promise<Result> {
  try {
    return read();
  } catch (error) {
    await check();
    throw error;
  }
}
