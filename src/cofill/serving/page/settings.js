// What the server was started with: from where pictures may come.

/** @type {{image_host: string[]}} */
let settings = { image_host: [] };

/** Ask what the server was started with; it needs no key. */
export async function loadSettings() {
  const answer = await fetch("page/settings.json");
  if (answer.ok) settings = await answer.json();
}

/** Whether the server lets us show a picture from there: else the browser would refuse it. @param {string} address */
export function mayShow(address) {
  if (/^data:image\//.test(address) || /^\/(?!\/)/.test(address)) return true;
  try {
    const { origin, protocol, hostname, port } = new URL(address);
    return settings.image_host.some((host) => {
      if (!host.includes("://*.")) return new URL(host).origin === origin;
      const any = new URL(host.replace("*.", "any."));
      return any.protocol === protocol && any.port === port && hostname.endsWith(any.hostname.slice("any".length));
    });
  } catch {
    return false;
  }
}
