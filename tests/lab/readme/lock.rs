use lockstorm::own::{
    Acquired, Algorithm, Choices, Client, Extended, Grant, LEASE, Lock, Released, Setting,
    TopologyKind, answer, async_trait, milliseconds, token,
};

const MINE: Algorithm = Algorithm::lease("mine", |setting| Box::new(Mine::new(setting)));

struct Mine {
    setting: Setting,
    choices: Choices,
    client: Client,
}

impl Mine {
    fn new(setting: Setting) -> Mine {
        let client = Client::of(&setting, &setting.nodes[0]);
        Mine { choices: LEASE.settle(&setting.config), client, setting }
    }
}

#[async_trait(?Send)]
impl Lock for Mine {
    async fn acquire(&mut self) -> Acquired {
        let Setting { host, config, call, .. } = &self.setting;
        let lease = self.choices.lease(config);
        let (token, ttl) = (token::fresh(host, call.get(), 0), milliseconds(lease.ttl));
        let args: [&[u8]; 5] =
            [config.key.as_bytes(), token.as_bytes(), b"NX", b"PX", ttl.as_bytes()];
        let sent = host.now(lease.clock);
        let answer = self.client.request(call.get(), self.choices.timeout, "SET", &args).await;
        let deadline = Some(lease.deadline(host, sent));
        answer::acquired(&answer, Grant::new(token, deadline))
    }

    async fn extend(&mut self, _grant: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        let (call, timeout) = (self.setting.call.get(), self.choices.timeout);
        let key = self.setting.config.key.as_bytes();
        answer::released(&self.client.request(call, timeout, "DEL", &[key]).await)
    }
}
