// Publishes events to a topic from Node: node publish.mjs redis://127.0.0.1:6379 shop 3

import { createClient } from "redis";

/** Adds one event. Its id is made of that of the entry, which is returned. */
function publish(server, topic, event, payload, group) {
  const fields = { type: event, payload: JSON.stringify(payload) };
  if (group !== undefined) {
    fields.key = group;
  }
  return server.xAdd(`queue:{${topic}}:log`, "*", fields);
}

const [url, topic, number] = process.argv.slice(2);
const server = createClient({ url });
await server.connect();
for (let order = 1; order <= Number(number); order += 1) {
  console.log(await publish(server, topic, "order.paid", { order: 200 + order, from: "Node, größer als ASCII" }, "node"));
}
await server.close();
