/**
 * Places a refusal with status 400, which is about the input, at the field. Any other refusal, such as a limit or an
 * outage, belongs to the whole form.
 */
export function errorsAt(
  field: string,
  { status, message }: { status: number; message: string },
): { fieldErrors: Record<string, string[]> } | { formErrors: string[] } {
  return status === 400 ? { fieldErrors: { [field]: [message] } } : { formErrors: [message] };
}
