// Asks and answers, sends to a unit and receives it in order, fails once; prints what came. Arguments: port, user, password.
const rhea = require('rhea');
const [port, username, password] = process.argv.slice(2);
const connect = () => rhea.create_container().connect({host: '127.0.0.1', port, username, password, reconnect: false});
const COUNT = 50;

function fail(context) {
    const of = context.receiver || context.sender || context.connection;
    console.error('failed:', String(of && of.error || context.error));
    process.exit(1);
}

function client() {
    const made = connect();
    for (const each of ['receiver_error', 'sender_error', 'connection_error', 'disconnected']) made.on(each, fail);
    return made;
}

function ask(then) {
    const server = client(), asking = client();
    const relay = server.open_sender({target: {}});
    server.open_receiver('requests').on('message', ({message}) => {
        relay.send({to: message.reply_to, correlation_id: message.message_id, body: message.body.toUpperCase()});
    });
    const answers = asking.open_receiver({source: {dynamic: true}});
    answers.on('receiver_open', () => {
        asking.open_sender('requests').once('sendable', ({sender}) => sender.send(
            {message_id: 'first', reply_to: answers.source.address, body: 'who is there'}));
    });
    answers.on('message', ({message}) => {
        console.log(message.correlation_id, message.body);
        for (const each of [server, asking]) {
            each.removeAllListeners('disconnected');
            each.close();
        }
        then();
    });
}

function inOrder() {
    const one = client(), got = [];
    let sent = 0, accepted = 0, hasFailed = false;
    const sender = one.open_sender('numbers');
    sender.on('sendable', () => {
        while (sender.sendable() && sent < COUNT) {
            sender.send({durable: true, group_id: 'u', body: rhea.types.wrap_long(sent), application_properties: {n: sent++}});
        }
    });
    sender.on('accepted', () => {
        if (++accepted < COUNT) return;
        const receiver = one.open_receiver({source: 'numbers', autoaccept: false, credit_window: 10});
        receiver.on('message', ({message, delivery}) => {
            if (message.body === 7 && !hasFailed) {
                hasFailed = true;
                delivery.modified({delivery_failed: true});
                return;
            }
            got.push(message.body);
            if (message.body === 7) console.log('attempts before', message.delivery_count);
            delivery.accept();
            if (got.length < COUNT) return;
            console.log('in order', got.every((each, at) => each === at));
            one.removeAllListeners('disconnected');
            one.on('connection_close', () => process.exit(0));
            one.close();
        });
    });
}

ask(inOrder);
